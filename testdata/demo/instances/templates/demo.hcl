template "demo/app" {
  module { address = "acme/app/time" }
  per_owner  = 1
  protection = true
  parameter "size" {
    enum = ["small", "large"]
  }
  inputs  = { name = id, seconds = 4 }
  outputs = ["url"]
  ttl {
    default = "10m" # none is shorter
    max     = "12m"
    extend  = "1m"
    extends = 1
  }
}

template "demo/pooled" {
  module { address = "acme/app/time" }
  inputs = { name = id }
  ttl { default = "10m" }
  pool {
    size       = 2
    max        = 4
    when_empty = "refuse"
  }
}

template "demo/guarded" {
  module { address = "acme/app/time" }
  approval = "plan"
  parameter "size" {
    enum   = ["small", "large"]
    update = true
  }
  inputs  = { name = id }
  outputs = ["url"]
  ttl { default = "10m" }
}

template "demo/slow" {
  module { address = "acme/app/time" }
  inputs = { name = id, seconds = 25 }
  ttl { default = "10m" }
}
