-- Nothing has been written before this but sorted sets; only the first write of a script can fail.
for n = 1, changes do
  local key = changed[n]
  local st = states[key]
  if st then
    local text, us = text_of[st.rule](st)
    if text then call('SET', key, text, lives(us)) else call('DEL', key) end
  end
end
return out
