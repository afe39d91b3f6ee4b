-- Deals turns out to an instance: `Ledger::ask`, and `line`.
-- KEYS: the ledger, records of instances, who wants more than it gets by what it was served, who is remembered until when.
-- A record is {served, number, cost, until, due, due, ...}.

local instance, number, heard = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local want, cost = tonumber(ARGV[5]), tonumber(ARGV[6])
local now = {at = clock(ARGV[1]), seen = tonumber(ARGV[7]), counted = tonumber(ARGV[8]), lapse = tonumber(ARGV[9])}
local spent, last, valid_until = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])

return mending(function()
  local pages, days, at_argument = read_terms(13)

  local function record_of(name)
    local packed = redis.call('HGET', KEYS[2], name)
    if not packed then return nil end
    local is_read, record = pcall(cmsgpack.unpack, packed)
    local is_sound = is_read and type(record) == 'table' and #record >= 4
    for i = 1, is_sound and #record or 0 do
      is_sound = is_sound and type(record[i]) == 'number' and record[i] >= 0 and record[i] < 1e18
    end
    if is_sound then return record end
    -- It is as little known as one that never asked.
    redis.call('HDEL', KEYS[2], name)
    return nil
  end

  local record = record_of(instance)
  local is_late = valid_until > 0 and now.at > valid_until
  if is_late or knows_no_day(days) or number <= (record and record[2] or 0) then
    return {number, 0, now.at, 0, 1000, 1, 0, 0, 0}
  end

  local state = open(pages, days, last, spent >= 0, not record, now)
  record = record_of(instance)

  -- What comes back: leased and never heard of, or not used.
  if record and record[2] > heard then
    for i = 5, #record do take_back(state, days, record[i], record[3], now) end
  end
  local returned = tonumber(ARGV[at_argument])
  for i = 1, returned do
    take_back(state, days, tonumber(ARGV[at_argument + 2 * i - 1]), tonumber(ARGV[at_argument + 2 * i]), now)
  end
  if spent > 0 then charge_quotas(state, days, min(spent, NEVER), now.at, now) end

  -- Who is away wants nothing any more; after a while it is forgotten.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now.at, 'LIMIT', 0, FORGOTTEN_MAX)) do
    local away = record_of(name)
    redis.call('ZREM', KEYS[3], name)
    if away and now.at < away[4] + KEPT_MIN then
      redis.call('ZADD', KEYS[4], away[4] + KEPT_MIN, name)
    else
      redis.call('ZREM', KEYS[4], name)
      redis.call('HDEL', KEYS[2], name)
      if name == instance then record = nil end
    end
  end

  -- Where it stands.
  want = min(want, WANT_MAX)
  local least = tonumber(redis.call('HGET', KEYS[2], '') or '0') or 0
  if not (least >= 0 and least < 1e15) then least = 0 end
  local pace_now = pace(state[6], now)
  local served, rank, rest, other
  if want > 0 then
    served = max(record and record[1] or 0, least)
    redis.call('ZADD', KEYS[3], served, instance)
    local first
    for _ = 1, FORGOTTEN_MAX do
      first = redis.call('ZRANGE', KEYS[3], 0, 1, 'WITHSCORES')
      local who = first[1] == instance and first[3] or first[1]
      if not who or who == instance or redis.call('HEXISTS', KEYS[2], who) == 1 then break end
      -- Nobody who ever asked: nobody would take it out again.
      redis.call('ZREM', KEYS[3], who)
    end
    rank = redis.call('ZRANK', KEYS[3], instance)
    if first[1] == instance then
      other = tonumber(first[4])
    else
      other = tonumber(first[2])
    end
  else
    redis.call('ZREM', KEYS[3], instance)
    served, rank = 0, 0
  end
  local among = redis.call('ZCARD', KEYS[3]) + (want > 0 and 0 or 1)
  local lead = div_up(HORIZON, pace_now * among)
  if other then rest = max(other + lead - served, 0) end

  -- What it gets.
  local due, horizon = {}, 0
  while #due < want do
    local came_back = next_back(state, days, cost, now)
    if came_back then
      due[#due + 1] = came_back
    else
      local next_due = earliest(state, days, cost, now)
      local is_far = is_another_day(days, next_due)
      horizon = HORIZON
      if rest and #due * cost >= rest then
        horizon = HORIZON / 2
        is_far = is_far or #due * cost >= rest + lead
      end
      if is_far then
        horizon = 0
        break
      end
      if next_due > now.at + horizon then break end
      charge(state, days, cost, next_due, now)
      due[#due + 1] = next_due
    end
  end
  local next_in = max(earliest(state, days, cost, now) - now.at, 0)
  local again = -1
  if #due < want then
    local enough = max(min(want - #due, div_up(lead, 2)), 1)
    again = min(max(next_in - horizon, 0) + ((enough - 1) * among + rank) * pace_now, AGAIN_MAX)
  end
  table.sort(due)

  -- What is remembered of it.
  local keep = save(state, days, now)
  if want > 0 then
    served = served + #due * cost
    if other then served = min(served, other + 2 * lead) end
    local until_at = now.at + max(again, 0) + AWAY
    redis.call('HSET', KEYS[2], instance, cmsgpack.pack({served, number, cost, until_at, unpack(due)}))
    redis.call('ZADD', KEYS[4], until_at, instance)
    if again >= 0 then
      redis.call('ZADD', KEYS[3], served, instance)
      other = min(other or served, served)
    else
      redis.call('ZREM', KEYS[3], instance)
      other = other or served
    end
    if other > least then redis.call('HSET', KEYS[2], '', other) end
  elseif record then
    redis.call('HSET', KEYS[2], instance, cmsgpack.pack({record[1], number, record[3], record[4]}))
  end
  for i = 2, 4 do redis.call('PEXPIRE', KEYS[i], keep) end

  local answer = {number, 1, now.at, next_in, again, among, held(state, now.at), state[4], #state[6]}
  for i, page in ipairs(state[6]) do
    local tokens, capacity
    if page[1] == 'r' then
      tokens, capacity = rate_fill(page, now)
    elseif page[1] == 's' then
      capacity = shared_count(page[2], now)
      tokens = (capacity - page[4]) * 1000
    else
      capacity = shared_count(page[2], now)
      tokens = (capacity - day_used(page, days[i].today)) * 1000
    end
    answer[#answer + 1] = tokens
    answer[#answer + 1] = capacity
  end
  for _, at in ipairs(due) do
    if not (at >= now.at and at <= now.at + 2 * HORIZON) then error(NO_SENSE) end
    answer[#answer + 1] = at - now.at
  end
  return must_be_numbers(answer)
end)
