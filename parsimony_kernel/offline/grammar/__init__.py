"""A request becomes clauses: what is loaded, kept, computed, drawn, published."""
