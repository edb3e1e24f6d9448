instances {
  templates = "templates"
}

executor "local" {
  program   = "tofu"
  isolation = "none" # so that it runs without bubblewrap; leave it out on a server
}
