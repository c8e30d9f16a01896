"""An analysis becomes the code that an analyst would write; text in, text out."""
