-- The answers for a target that are for somebody; where there is none, and one that may lead asks, who leads.
--
-- KEYS: the answers for the target; who leads. ARGV: the token of who would lead or nothing, for how long at most (ms), how many
-- bytes are enough, how many the largest has, and whose answers are wanted. Without those it is only asked who leads.
-- What is larger nobody has stored who asks: it is not sent.
--
-- Answers, each behind its slot; then -1 if nobody has asked who leads, 0 if that is who has asked, and otherwise for how long
-- somebody else does (ms).
local found, bytes, enough, most = {}, 0, tonumber(ARGV[3]), tonumber(ARGV[4])
if #ARGV > 4 then
    for _, slot in ipairs(redis.call('HKEYS', KEYS[1])) do
        for at = 5, #ARGV do
            if #slot == 16 and string.sub(slot, 1, 8) == ARGV[at] and bytes < enough then
                local length = redis.call('HSTRLEN', KEYS[1], slot)
                if length <= most then
                    bytes = bytes + length
                    found[#found + 1] = slot
                    found[#found + 1] = redis.call('HGET', KEYS[1], slot)
                end
                break
            end
        end
    end
end
if ARGV[1] == '' or #found > 0 then
    return {found, -1}
end
local left = redis.call('PTTL', KEYS[2])
if left > 0 then
    redis.call('HSET', KEYS[2], 'waits', '1')
    return {found, left}
end
redis.call('HSET', KEYS[2], 'by', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {found, 0}
