template "sandbox/greeting" {
  title = "A greeting"
  module {
    address = "acme/greeting/any"
    version = "~> 1.0"
  }
  ttl {
    default = "4h"
    max     = "8h"
  }
  parameter "name" {
    update = true
  }
  outputs = ["text"]
}

template "sandbox/asked" {
  title    = "A greeting, after an approval"
  approval = "request"
  module {
    address = "acme/greeting/any"
    version = "~> 1.0"
  }
  ttl {
    default = "4h"
    max     = "8h"
  }
  parameter "name" {
    update = true
  }
  outputs = ["text"]
}
