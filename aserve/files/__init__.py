"""Files that the server answers with by itself: those of --static, and those that the app names."""
