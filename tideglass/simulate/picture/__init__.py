"""Pictures of time: SVG or PNG by the path's suffix. matplotlib is imported when one is drawn."""
