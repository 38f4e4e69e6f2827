"""Moving a program over from LangGraph or Strands: `python -m graphkit.migrate PATH` (extra `migrate`)."""
