-- What somebody else has put under a key of ours is dropped: it would be in the way for as long as it is there.
for _, key in ipairs(KEYS) do
    local length = redis.pcall('HLEN', key)
    if type(length) == 'table' and length.err and string.find(length.err, 'WRONGTYPE', 1, true) then
        redis.call('DEL', key)
    end
end
