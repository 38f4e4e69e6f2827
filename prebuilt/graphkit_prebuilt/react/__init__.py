"""`create_react_agent` and what belongs to it: LangGraph's prebuilt agent as a graph of ours."""
