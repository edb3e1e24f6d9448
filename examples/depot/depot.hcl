interval = "1h"

defaults {
  keep = 3
}

module "net/vpc/aws" {
  source   = "oci://127.0.0.1:8081/modules/net/vpc/aws"
  versions = ">= 1.0.0, < 2.0.0"
}
