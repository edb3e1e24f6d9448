template "sandbox/greeting" {
  title = "A greeting, for an hour"
  module {
    address = "acme/greeting/any"
    version = "~> 1.0"
  }
  per_owner = 1
  ttl {
    default = "1h"
    max     = "8h"
  }
  parameter "name" {
    title   = "Whom to greet"
    pattern = "^[a-z]+$"
    update  = true
  }
  outputs = ["text"]
}
