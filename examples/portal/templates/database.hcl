template "sandbox/database" {
  title    = "A database, after an approval"
  approval = "request"
  module {
    address = "acme/database/any"
    version = "~> 1.0"
  }
  ttl {
    default = "8h"
    max     = "72h"
  }
  parameter "size" {
    enum    = ["small", "large"]
    default = "small"
  }
  inputs = {
    name = "db-${id}"
  }
  outputs = ["name"]
}
