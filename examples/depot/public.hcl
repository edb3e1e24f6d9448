interval = "1h"

defaults {
  keep      = 20
  platforms = ["linux_amd64", "darwin_arm64"]
}

module "terraform-aws-modules/vpc/aws" {
  source   = "github.com/terraform-aws-modules/terraform-aws-vpc"
  versions = "~> 6.0"
}

provider "hashicorp/aws" {
  versions = "~> 6.0"
  limit    = 3
}
