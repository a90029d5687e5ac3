"""Many experiments that differ in a few fields: grids, run in parallel and resumed, knees, tornado charts."""
