"""Scale-ahead in the service: its runner, calendar entries, rehearsals, launches, the weekly report."""
