"""What a run and a trace hold, as plain data: no judgement and no sentences."""
