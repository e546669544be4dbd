"""Language models behind one async call, wrappers round them, and profiles that say how to ask them."""
