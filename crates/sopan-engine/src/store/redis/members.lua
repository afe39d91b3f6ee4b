-- Who shares: an instance says that it lives, or that it leaves, and hears how many there are. This is sopan-core's
-- `share::register`, line by line: change both. Why things are as they are is written there.
--
-- KEYS[1]  the members: a sorted set of ids, by when each was last heard of, in µs of this server's clock
-- ARGV     id · `beat` or `leave` · unseen after (µs) · forgotten after (µs) · how many the asker knows of · the key lives (ms)
--          · after this by this server's clock it does nothing (µs; 0 for never) · in tests a clock (µs)
--
-- Answers: how many are seen · for how many a share is kept · this server's clock (µs). To one that leaves no number of those
-- seen, and zeros to one that came too late.
--
-- A server that stood still finds the beats of all who gave it up meanwhile, and they go on alone until they have heard of it
-- again: they must not be taken for seen.
local id, what = ARGV[1], ARGV[2]
local unseen, forgotten, known = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local valid_until, now = tonumber(ARGV[7]), tonumber(ARGV[8])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local all = KEYS[1]
-- A number of that size would lose its end if it were written as Lua writes it.
local function written(number) return string.format('%.0f', number) end

if valid_until > 0 and now > valid_until then return { 0, 0, now } end
if what == 'leave' then
  redis.call('ZREM', all, id)
  return { 0, redis.call('ZCARD', all), now }
end
-- Those whom a clock that was set back left in the future have been seen now.
for _, member in ipairs(redis.call('ZRANGEBYSCORE', all, '(' .. written(now), '+inf')) do
  redis.call('ZADD', all, written(now), member)
end
redis.call('ZREMRANGEBYSCORE', all, '-inf', written(now - forgotten))
if redis.call('ZCARD', all) == 0 then
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
