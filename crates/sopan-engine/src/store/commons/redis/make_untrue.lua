-- Something of an upstream is untrue from now on.
--
-- KEYS: what is known of its purges; the answers for the target, if it is one. ARGV: `t`, `b` or `a` and the target, the path or
-- nothing, the channel, who says so, the tag, how long what is known is kept (ms), and how long a target that nothing is
-- stored for remembers it (ms), how many paths are remembered.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local before = tonumber(redis.call('HGET', KEYS[1], 'number') or '0')
local number = string.format('%.0f', math.max(now, before + 1))
local kind, scope = string.sub(ARGV[1], 1, 1), ARGV[1]
if kind == 't' then
    redis.call('DEL', KEYS[2])
    redis.call('HSET', KEYS[2], '-', number)
    redis.call('PEXPIRE', KEYS[2], ARGV[6])
elseif kind == 'b' then
    redis.call('HSET', KEYS[1], string.sub(scope, 2), number, 'swept', number)
end
-- Beside three numbers there are only paths.
local is_too_much = redis.call('HLEN', KEYS[1]) > tonumber(ARGV[7]) + 3
if kind == 'a' or before == 0 or is_too_much then
    scope = 'a'
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'all', number, 'swept', number)
end
redis.call('HSET', KEYS[1], 'number', number)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
before = string.format('%.0f', before)
redis.call('PUBLISH', ARGV[2], 'u ' .. ARGV[4] .. ' ' .. ARGV[3] .. ' ' .. before .. ' ' .. number .. ' ' .. scope)
return {before, number}
