-- Keeps an answer, unless something has made it untrue of which the one who has it does not know.
--
-- KEYS: what is known of the purges of the upstream; the answers for the target. ARGV: the number that is known, the slot, the
-- value, how long it is kept (ms), how long what is known of purges is (ms), how many answers a target may have, and the slots
-- that go.
local number = tonumber(ARGV[1])
local swept = redis.call('HGET', KEYS[1], 'swept')
if not swept or number < tonumber(swept) then
    return 0
end
if number < (tonumber(redis.call('HGET', KEYS[2], '-') or '0') or math.huge) then
    return 0
end
for at = 7, #ARGV do
    redis.call('HDEL', KEYS[2], ARGV[at])
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
local more = redis.call('HLEN', KEYS[2]) - tonumber(ARGV[6])
if more > 0 then
    for _, slot in ipairs(redis.call('HKEYS', KEYS[2])) do
        if more > 0 and slot ~= ARGV[2] and slot ~= '-' then
            redis.call('HDEL', KEYS[2], slot)
            more = more - 1
        end
    end
end
redis.call('PEXPIRE', KEYS[2], math.max(redis.call('PTTL', KEYS[2]), tonumber(ARGV[4])))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
