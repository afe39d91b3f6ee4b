-- Who shares: an instance says that it lives, or that it leaves, and hears how many there are.
--
-- KEYS[1]  the members: a sorted set of ids, by when each was last heard of, in µs of this server's clock
-- ARGV     id · `beat` or `leave` · unseen after (µs) · forgotten after (µs) · how many the asker knows of · the key lives (ms)
--          · in tests a clock (µs)
--
-- Answers: how many are seen · for how many a share is kept · this server's clock (µs).
--
-- A server that has lost its memory must not take the first who comes for the only one: while the others go on at their shares,
-- that would be more than the limit. So whoever comes first brings along as many as it knows of, without their names; each
-- takes the place of one of them when it comes itself, and who never comes is forgotten like any other.
local id, what = ARGV[1], ARGV[2]
local unseen, forgotten, known = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local now = tonumber(ARGV[7])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local all = KEYS[1]
-- A number of that size would lose its end if it were written as Lua writes it.
local function written(number) return string.format('%.0f', number) end

redis.call('ZREMRANGEBYSCORE', all, '-inf', written(now - forgotten))
if what == 'leave' then
  redis.call('ZREM', all, id)
elseif redis.call('ZCARD', all) == 0 then
  redis.call('ZADD', all, written(now), id)
  for other = 1, math.min(known, 1000) - 1 do
    redis.call('ZADD', all, written(now - unseen), '?' .. other)
  end
else
  if not redis.call('ZSCORE', all, id) then
    -- Only a newcomer looks at all of them.
    for _, member in ipairs(redis.call('ZRANGE', all, 0, -1)) do
      if string.sub(member, 1, 1) == '?' then
        redis.call('ZREM', all, member)
        break
      end
    end
  end
  redis.call('ZADD', all, written(now), id)
end
redis.call('PEXPIRE', all, ARGV[6])
local counted = redis.call('ZCARD', all)
local seen = redis.call('ZCOUNT', all, '(' .. written(now - unseen), '+inf')
return { seen, counted, now }
