-- What of one lane's schedule is dealt out. This is sopan-core's `share::ledger`, line by line: change both, and the test that
-- plays random histories to both says whether they are still the same. Why things are as they are is written there.
--
-- All numbers are whole and below 2^53. A page is a list, so that a ledger packs small:
--   rate {'r', interval, parts, burst, whole, part, unheld whole or -1, unheld part}
--   ring {'s', count, span, used, {leaves, turns, leaves, turns, ...}}
--   day  {'d', count, name, {date, used, date, used, ...}}
-- A state is {1, at, hold, by, {due, cost, due, cost, ...}, pages, born}; the first number is the version of all this.

local HORIZON = 300000
local NEVER = 4503599627370496
local GROUPS = 128
local GROUPS_MAX = 256
local MARGIN = 100000
local DAYS_KEPT = 4
local BACK_MAX = 128
local KEPT_MIN = 60000000
local AGAIN_MAX = 10000000
local AWAY = 2 * HORIZON
local FORGOTTEN_MAX = 100
local WANT_MAX = 256
local GRACE = 10000000
local NO_SENSE = 'what is kept of these limits makes no sense'

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

-- Both are exact below 2^53.
local function div(a, b) return floor(a / b) end
local function div_up(a, b) return ceil(a / b) end

local function clock(given)
  if given ~= '0' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Terms -------------------------------------------------------------------------------------------------------------------

-- Reads the terms that begin at argument i; answers new pages, the present days by page, and where the next argument is.
local function read_terms(i)
  local pages, days = {}, {}
  local count = tonumber(ARGV[i])
  i = i + 1
  for n = 1, count do
    local kind = ARGV[i]
    if kind == 'r' then
      pages[n] = {'r', tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), 0, 0, -1, 0}
      i = i + 4
    elseif kind == 's' then
      pages[n] = {'s', tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), 0, {}}
      i = i + 3
    else
      pages[n] = {'d', tonumber(ARGV[i + 1]), ARGV[i + 2], {}}
      days[n] = {
        before = tonumber(ARGV[i + 3]), today = tonumber(ARGV[i + 4]), after = tonumber(ARGV[i + 5]),
        first = tonumber(ARGV[i + 6]), last = tonumber(ARGV[i + 7]),
      }
      i = i + 8
    end
  end
  return pages, days, i
end

local function knows_no_day(days)
  for _, day in pairs(days) do
    if day.today == 0 then return true end
  end
  return false
end

local function shared_count(count, now)
  local rest = count % now.counted
  return max(div(count, now.counted) * now.seen + div(rest * now.seen, now.counted), 1)
end

-- A rate while some are aside: its interval and burst.
local function shared_rate(page, now)
  return div_up(page[2] * now.counted, now.seen), max(div(page[4] * now.seen, now.counted), 1)
end

local function pace(pages, now)
  local slowest = 1
  for _, page in ipairs(pages) do
    if page[1] == 'r' then
      slowest = max(slowest, div_up(shared_rate(page, now), page[3]))
    elseif page[1] == 's' then
      slowest = max(slowest, div_up(page[3], shared_count(page[2], now)))
    end
  end
  return slowest
end

-- Rates -------------------------------------------------------------------------------------------------------------------

-- So many intervals: microseconds and parts.
local function span(interval, parts, count)
  local whole, part = div(interval, parts), interval % parts
  local sum = count * part
  return min(min(count * whole, NEVER) + div(sum, parts), NEVER), sum % parts
end

local function plus(whole, part, more, more_part, parts)
  local sum = part + more_part
  return min(whole + more + div(sum, parts), NEVER), sum % parts
end

local function minus(whole, part, less, less_part, parts)
  if part < less_part then
    less, part = less + 1, part + parts - less_part
  else
    part = part - less_part
  end
  if whole < less then return 0, 0 end
  return whole - less, part
end

local function later(whole, part, other, other_part)
  if whole > other or (whole == other and part > other_part) then return whole, part end
  return other, other_part
end

local function rate_earliest(page, cost, now)
  local interval, burst = shared_rate(page, now)
  local less, less_part = span(interval, page[3], burst - min(cost, burst))
  local whole, part = minus(page[5], page[6], less, less_part, page[3])
  if part > 0 then return whole + 1 end
  return whole
end

local function rate_spent(page, interval, whole, part, cost, due)
  if not (due <= whole or (due == whole + 1 and part > 0)) then
    whole, part = due, 0
  end
  local more, more_part = span(interval, page[3], cost)
  return plus(whole, part, more, more_part, page[3])
end

local function rate_charge(page, cost, due, now)
  local interval = shared_rate(page, now)
  page[5], page[6] = rate_spent(page, interval, page[5], page[6], cost, due)
  if page[7] >= 0 then
    page[7], page[8] = rate_spent(page, interval, page[7], page[8], cost, due)
  end
end

local function rate_go_on_after(page, last)
  local more, more_part = span(page[2], page[3], 1)
  local whole, part = plus(last, 0, more, more_part, page[3])
  page[5], page[6] = later(page[5], page[6], whole, part)
end

local function rate_one_at(page, at, now)
  local interval, burst = shared_rate(page, now)
  local more, more_part = span(interval, page[3], burst - 1)
  return plus(at, 0, more, more_part, page[3])
end

local function rate_leave_one(page, at, now)
  local whole, part = rate_one_at(page, at, now)
  page[5], page[6] = later(page[5], page[6], whole, part)
  if page[7] >= 0 then
    page[7], page[8] = later(page[7], page[8], whole, part)
  end
end

local function rate_hold_until(page, hold_end, now)
  if page[7] < 0 then
    page[7], page[8] = page[5], page[6]
  end
  local whole, part = rate_one_at(page, hold_end, now)
  page[5], page[6] = later(page[5], page[6], whole, part)
end

local function rate_hold_over(page)
  page[7], page[8] = -1, 0
end

local function rate_release(page, now)
  if page[7] < 0 then return end
  local whole, part = rate_one_at(page, now.at, now)
  page[5], page[6] = later(page[7], page[8], whole, part)
  page[7], page[8] = -1, 0
end

local function rate_carried(page, old, whole, part, at)
  if whole < at then return 0, 0 end
  local missing = (whole - at) + part / old[3]
  local tokens = missing / (old[2] / old[3])
  local ahead = ceil(tokens * (page[2] / page[3]))
  return min(at + ahead, NEVER), 0
end

local function rate_take_over(page, old, at)
  page[5], page[6] = rate_carried(page, old, old[5], old[6], at)
  if old[7] >= 0 then
    page[7], page[8] = rate_carried(page, old, old[7], old[8], at)
  end
end

local function rate_fill(page, now)
  local interval, burst = shared_rate(page, now)
  local ahead = 0
  if page[5] >= now.at then
    ahead = (page[5] - now.at) + page[6] / page[3]
  end
  local missing = ahead / (interval / page[3])
  return max(floor((burst - missing) * 1000), -NEVER), burst
end

-- Quotas of a sliding span ------------------------------------------------------------------------------------------------

local function ring_forget_before(page, at)
  local groups, kept = page[5], {}
  local first = 1
  while first <= #groups and groups[first] <= at do
    page[4] = page[4] - groups[first + 1]
    first = first + 2
  end
  if first == 1 then return end
  for i = first, #groups do
    kept[i - first + 1] = groups[i]
  end
  page[5] = kept
end

local function ring_earliest(page, cost, now)
  local count = shared_count(page[2], now)
  local excess = max(page[4] + min(cost, count) - count, 0)
  local at, groups = 0, page[5]
  for i = 1, #groups, 2 do
    if excess == 0 then break end
    at, excess = groups[i], max(excess - groups[i + 1], 0)
  end
  return at
end

local function ring_charge(page, turns, at)
  local leaves, groups = at + page[3], page[5]
  page[4] = page[4] + turns
  local size, last = div_up(page[2], GROUPS), #groups - 1
  if last > 0 then
    leaves = max(leaves, groups[last])
    if groups[last + 1] + turns <= size then
      groups[last], groups[last + 1] = leaves, groups[last + 1] + turns
      return
    end
  end
  groups[#groups + 1] = leaves
  groups[#groups + 1] = turns
  if #groups > 2 * GROUPS_MAX then
    local oldest = groups[2]
    table.remove(groups, 1)
    table.remove(groups, 1)
    groups[2] = groups[2] + oldest
  end
end

local function ring_give_back(page, due, cost, now)
  local leaves, groups, i = due + page[3], page[5], 1
  if leaves <= now.at then return end
  while i <= #groups and groups[i] < leaves do i = i + 2 end
  while cost > 0 and i <= #groups do
    local turns = min(cost, groups[i + 1])
    groups[i + 1] = groups[i + 1] - turns
    page[4], cost = page[4] - turns, cost - turns
    if groups[i + 1] == 0 then
      table.remove(groups, i)
      table.remove(groups, i)
    else
      i = i + 2
    end
  end
end

local function ring_shift(page, back)
  for i = 1, #page[5], 2 do
    page[5][i] = max(page[5][i] - back, 0)
  end
end

local function ring_take_over(page, old)
  page[4] = old[4]
  for i = 1, #old[5], 2 do
    page[5][i] = max(old[5][i] + page[3] - old[3], 0)
    page[5][i + 1] = old[5][i + 1]
  end
end

-- Quotas of the calendar --------------------------------------------------------------------------------------------------

local function day_used(page, date)
  for i = 1, #page[4], 2 do
    if page[4][i] == date then return page[4][i + 1] end
  end
  return 0
end

local function day_fits(page, date, cost, now)
  local count = shared_count(page[2], now)
  return day_used(page, date) + min(cost, count) <= count
end

local function day_earliest(page, day, cost, now)
  if not day_fits(page, day.today, cost, now) then return day.last + MARGIN end
  if not day_fits(page, day.before, cost, now) then return day.first + MARGIN end
  return 0
end

local function day_closes(page, day, cost, due, now)
  if due + now.lapse + MARGIN >= day.last and not day_fits(page, day.after, cost, now) then
    return day.last + MARGIN
  end
  return 0
end

local function day_count_in(page, date, cost)
  local days = {date, day_used(page, date) + cost}
  for i = 1, #page[4], 2 do
    if page[4][i] ~= date and #days < 2 * DAYS_KEPT then
      days[#days + 1] = page[4][i]
      days[#days + 1] = page[4][i + 1]
    end
  end
  page[4] = days
end

local function day_charge(page, day, cost, due, now)
  if due < day.first + MARGIN then day_count_in(page, day.before, cost) end
  if due + now.lapse + MARGIN >= day.last then day_count_in(page, day.after, cost) end
  day_count_in(page, day.today, cost)
end

local function day_give_back(page, day, due, cost)
  if due < day.first + MARGIN or due + 2 * MARGIN >= day.last then return end
  for i = 1, #page[4], 2 do
    if page[4][i] == day.today then page[4][i + 1] = max(page[4][i + 1] - cost, 0) end
  end
end

local function day_take_over(page, old, day)
  if page[3] == old[3] or day.today == 0 then
    page[3], page[4] = old[3], old[4]
  elseif #old[4] > 0 then
    page[4] = {day.today, old[4][2]}
  end
end

-- All limits --------------------------------------------------------------------------------------------------------------

local function is_of(one, other)
  if one[1] ~= other[1] or one[2] ~= other[2] then return false end
  if one[1] == 'r' then return one[3] == other[3] and one[4] == other[4] end
  return one[3] == other[3]
end

local function change(state, pages, days, at)
  local same = #pages == #state[6]
  for i, page in ipairs(pages) do
    same = same and is_of(page, state[6][i])
  end
  if same then return end
  for i, page in ipairs(pages) do
    local nth, old = 1, nil
    for j = 1, i - 1 do
      if pages[j][1] == page[1] then nth = nth + 1 end
    end
    for _, other in ipairs(state[6]) do
      if other[1] == page[1] then
        nth = nth - 1
        if nth == 0 then old = other end
      end
    end
    if old and page[1] == 'r' then
      rate_take_over(page, old, at)
    elseif old and page[1] == 's' then
      ring_take_over(page, old)
    elseif old then
      day_take_over(page, old, days[i])
    end
  end
  state[6] = pages
end

-- Of `pages` those that are left alone are of other kinds.
local function rates(state, act)
  for _, page in ipairs(state[6]) do
    if page[1] == 'r' then act(page) end
  end
end

local function not_before_another_day(state, days, due, cost, now)
  local at = due
  for i, day in pairs(days) do
    at = max(at, day_closes(state[6][i], day, cost, due, now))
  end
  return at
end

local function is_another_day(days, due)
  for _, day in pairs(days) do
    if due >= day.last then return true end
  end
  return false
end

local function quotas_from(state, days, cost, now)
  local from = 0
  for i, page in ipairs(state[6]) do
    if page[1] == 's' then
      from = max(from, ring_earliest(page, cost, now))
    elseif page[1] == 'd' then
      from = max(from, day_earliest(page, days[i], cost, now))
    end
  end
  return from
end

local function earliest(state, days, cost, now)
  local due = max(now.at, state[3], quotas_from(state, days, cost, now))
  rates(state, function(page) due = max(due, rate_earliest(page, cost, now)) end)
  return not_before_another_day(state, days, due, cost, now)
end

local function charge_quotas(state, days, cost, due, now)
  for i, page in ipairs(state[6]) do
    if page[1] == 's' then
      ring_charge(page, cost, due + now.lapse)
    elseif page[1] == 'd' then
      day_charge(page, days[i], cost, due, now)
    end
  end
end

local function charge(state, days, cost, due, now)
  rates(state, function(page) rate_charge(page, cost, due, now) end)
  charge_quotas(state, days, cost, due, now)
end

local function take_back(state, days, due, cost, now)
  for i, page in ipairs(state[6]) do
    if page[1] == 's' then
      ring_give_back(page, due, cost, now)
    elseif page[1] == 'd' then
      day_give_back(page, days[i], due, cost)
    end
  end
  local back = state[5]
  if due >= max(now.at, state[3]) and due <= now.at + 2 * HORIZON and #back < 2 * BACK_MAX then
    local i = 1
    while i <= #back and back[i] <= due do i = i + 2 end
    table.insert(back, i, cost)
    table.insert(back, i, due)
  end
end

local function next_back(state, days, cost, now)
  local back, i = state[5], 1
  while i <= #back and back[i + 1] ~= cost do i = i + 2 end
  if i > #back then return nil end
  local due = back[i]
  if quotas_from(state, days, cost, now) > due or is_another_day(days, due) then return nil end
  if not_before_another_day(state, days, due, cost, now) > due then return nil end
  table.remove(back, i)
  table.remove(back, i)
  charge_quotas(state, days, cost, due, now)
  return due
end

local function keep_back_from(state, from)
  local kept = {}
  for i = 1, #state[5], 2 do
    if state[5][i] >= from then
      kept[#kept + 1] = state[5][i]
      kept[#kept + 1] = state[5][i + 1]
    end
  end
  state[5] = kept
end

local function hold(state, hold_end, by, now)
  if hold_end <= state[3] then return end
  state[3], state[4] = hold_end, by
  rates(state, function(page) rate_hold_until(page, hold_end, now) end)
  keep_back_from(state, hold_end)
end

local function release(state, now)
  rates(state, function(page) rate_release(page, now) end)
  state[3] = 0
end

local function held(state, at)
  return max(state[3] - at, 0)
end

local function open(pages, days, last, was_alone, is_unknown, now)
  local packed = redis.call('GET', KEYS[1])
  local state
  if not packed then
    state = {1, 0, 0, 0, {}, pages, now.at}
  else
    state = cmsgpack.unpack(packed)
    if type(state) ~= 'table' or type(state[1]) ~= 'number' then error(NO_SENSE) end
    if state[1] ~= 1 then return error('this ledger is of another version of sopan') end
    if now.at < state[2] then
      local back = state[2] - now.at
      for _, page in ipairs(state[6]) do
        if page[1] == 'r' then
          page[5] = max(page[5] - back, 0)
          if page[7] >= 0 then page[7] = max(page[7] - back, 0) end
        elseif page[1] == 's' then
          ring_shift(page, back)
        end
      end
      state[3], state[5], state[7] = max(state[3] - back, 0), {}, max(state[7] - back, 0)
      redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
    end
    change(state, pages, days, now.at)
  end
  state[2] = now.at
  if state[3] <= now.at then
    rates(state, rate_hold_over)
    state[3] = 0
  end
  if last > now.at + 2 * HORIZON then last = 0 end
  if is_unknown and now.at < last + KEPT_MIN then
    rates(state, function(page) rate_leave_one(page, max(now.at, state[7] + HORIZON), now) end)
  end
  if was_alone then
    rates(state, function(page) rate_leave_one(page, max(now.at, last), now) end)
  end
  if last > 0 then
    rates(state, function(page) rate_go_on_after(page, last) end)
  end
  for _, page in ipairs(state[6]) do
    if page[1] == 's' then ring_forget_before(page, now.at) end
  end
  keep_back_from(state, max(now.at, state[3]))
  return state
end

-- Idle keys expire when all is as if they were not there: the limits full, and nobody aside any more.
local function save(state, days, now)
  local until_at = max(now.at, state[3])
  for i, page in ipairs(state[6]) do
    if page[1] == 'r' then
      until_at = max(until_at, page[5], page[7])
    elseif page[1] == 's' then
      until_at = max(until_at, page[5][#page[5] - 1] or 0)
    else
      until_at = max(until_at, min(days[i].last, now.at + 2 * 86400000000) + 2 * MARGIN)
    end
  end
  local keep = div_up(max(until_at - now.at + GRACE, KEPT_MIN), 1000)
  redis.call('SET', KEYS[1], cmsgpack.pack(state), 'PX', keep)
  return keep
end

-- What cannot be read ----------------------------------------------------------------------------------------------------

local UNREADABLE = {NO_SENSE, 'attempt to', 'bad argument', 'WRONGTYPE', 'Bad data format', 'Missing bytes'}

local function must_be_numbers(answer)
  for _, number in ipairs(answer) do
    if type(number) ~= 'number' or not (number > -1e18 and number < 1e18) then error(NO_SENSE) end
  end
  return answer
end

-- Who has written something else there, or half of it, has made it of no use: then all is as if it had been lost, once, and not
-- an error to each who asks. What the server refuses, and what another version has written, is another matter.
local function mending(act)
  local done, answer = pcall(act)
  if done then return answer end
  local why = type(answer) == 'table' and answer.err or tostring(answer)
  for _, sign in ipairs(UNREADABLE) do
    if string.find(why, sign, 1, true) then
      redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
      return act()
    end
  end
  if type(answer) == 'table' then return answer end
  return error(answer, 0)
end
