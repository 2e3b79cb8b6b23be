"""Show and measure the running system: the demo, and drafters made hostile on purpose."""
