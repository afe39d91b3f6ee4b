-- A hold begins or ends: `Ledger::tell`. All who listen are told in the same step.
-- KEYS: as for `ask`. The last two arguments are the channel and what is published there, if anything.

local now = {at = clock(ARGV[1]), seen = tonumber(ARGV[2]), counted = tonumber(ARGV[3]), lapse = 0}
local remaining, by = tonumber(ARGV[4]), tonumber(ARGV[5])

return mending(function()
  local pages, days, at_argument = read_terms(6)

  local state = open(pages, days, 0, false, false, now)
  if remaining > 0 then
    hold(state, min(now.at + remaining, NEVER), by, now)
  else
    release(state, now)
  end
  save(state, days, now)
  local answer = must_be_numbers({now.at, held(state, now.at), state[4]})
  if ARGV[at_argument] then redis.call('PUBLISH', ARGV[at_argument], ARGV[at_argument + 1]) end
  return answer
end)
