-- How far have the purges of an upstream come?
--
-- KEYS: what is known of them. ARGV: the number that the instance knows, whether it doubts, the channel, its name, the tag, how
-- long what is known is kept (ms).
--
-- A number is a time in microseconds, or one more than the one before, so that after a loss of all or the latest none comes
-- again. Who knows a larger one than there is has heard of what was lost; then all begins anew.
--
-- All numbers are below 2^52, so that there is always a next one.
local NUMBER_MAX = 4503599627370496
-- Three numbers and some paths.
local FIELDS_MAX, BYTES_MAX = 100, 1048576
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known = tonumber(ARGV[1])
local number = tonumber(redis.call('HGET', KEYS[1], 'number') or '0') or 0
-- What no script of ours has written says nothing any more: then something may have been lost.
local is_ours, bytes = redis.call('HLEN', KEYS[1]) <= FIELDS_MAX, 0
for _, field in ipairs(is_ours and redis.call('HKEYS', KEYS[1]) or {}) do
    bytes = bytes + #field
    local is_short = redis.call('HSTRLEN', KEYS[1], field) <= 16
    local value = is_short and string.match(redis.call('HGET', KEYS[1], field), '^%d+$')
    is_ours = is_ours and bytes <= BYTES_MAX and value and tonumber(value) < NUMBER_MAX
end
if not is_ours then number = 0 end
if number == 0 or number < known or ARGV[2] == '1' then
    local before = string.format('%.0f', number)
    number = math.max(now, known + 1, number + 1)
    local text = string.format('%.0f', number)
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'number', text, 'all', text, 'swept', text)
    redis.call('PUBLISH', ARGV[3], 'u ' .. ARGV[5] .. ' ' .. ARGV[4] .. ' ' .. before .. ' ' .. text .. ' a')
end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {string.format('%.0f', now), redis.call('HGETALL', KEYS[1])}
