-- Who has led leads no more; those who wait are told, if there are some.
--
-- KEYS: who leads. ARGV: the token, the channel, the course.
if redis.call('HGET', KEYS[1], 'by') == ARGV[1] then
    local waits = redis.call('HGET', KEYS[1], 'waits')
    redis.call('DEL', KEYS[1])
    if waits then
        redis.call('PUBLISH', ARGV[2], 'l ' .. ARGV[3])
    end
end
return 0
