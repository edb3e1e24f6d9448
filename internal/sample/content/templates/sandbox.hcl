template "sandbox/greeting" {
  title       = "A greeting"
  description = "Says hello for an hour. Ready in seconds."
  module {
    address = "acme/greeting/any"
    version = "~> 1.0"
  }
  per_owner = 3
  ttl {
    default = "1h"
    max     = "8h"
    extend  = "1h"
    extends = 2
  }
  parameter "name" {
    title  = "Name"
    update = true
  }
  parameter "language" {
    title   = "Language"
    enum    = ["en", "de", "fr"]
    default = "en"
  }
  outputs = ["text"]
}

template "sandbox/network" {
  title       = "A network"
  description = "A network with the subnets that you ask for. Somebody looks at the request first."
  approval    = "request"
  module {
    address = "acme/network/any"
    version = "~> 1.0"
  }
  ttl {
    default = "8h"
    max     = "72h"
    extend  = "8h"
    extends = 3
  }
  parameter "cidr" {
    title = "Range"
  }
  parameter "subnets" {
    title  = "Subnets"
    update = true
  }
  parameter "tags" {
    title  = "Tags"
    update = true
  }
  parameter "flow_logs" {
    title  = "Log the traffic"
    update = true
  }
  inputs = {
    name = "sandbox-${id}"
  }
  outputs = ["id", "subnets"]
}

template "sandbox/database" {
  title       = "A database"
  description = "A database for a while. Each plan is looked at before it is applied."
  approval    = "plan"
  module {
    address = "acme/database/any"
    version = "~> 1.0"
  }
  ttl {
    default = "4h"
    max     = "24h"
    extend  = "4h"
    extends = 1
  }
  parameter "engine" {
    title = "Engine"
    enum  = ["postgres", "mysql"]
  }
  parameter "storage" {
    title   = "Disk in GiB"
    maximum = 100
    update  = true
  }
  parameter "password" {
    title = "Password"
  }
  inputs = {
    name = "sandbox-${id}"
  }
  outputs = ["address", "password"]
}
