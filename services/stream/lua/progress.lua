if call('HEXISTS', STATE, 'epoch') == 0 then return {'not-open', ''} end
return {'ok', call('HGETALL', STATE), call('HGETALL', PARTITIONS), call('HVALS', WORKERS)}
