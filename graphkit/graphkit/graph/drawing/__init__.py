"""How drawings are made of a `DrawableGraph` (`graph/draw.py`).

`mermaid`, `interchange` and `ascii` write text and data, `picture` has `graphviz` or `plot` make PNG and SVG.
`ascii` and `plot` draw the same `layout`: `levels` it works on, `layers`, `columns`, `routing`, in this order.
`marking` finds where a thread stands.
"""
