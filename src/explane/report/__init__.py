"""Results to documents: claims, text, pictures, pages, tables."""
