template "sandbox/kiosk" {
  title = "A kiosk that is ready at once"
  module {
    address = "acme/kiosk/any"
    version = "~> 1.0"
  }
  pool {
    size = 1
    max  = 3
  }
  ttl {
    default = "2h"
    max     = "4h"
  }
  inputs = {
    number = "kiosk-${id}"
  }
  outputs = ["number"]
}
