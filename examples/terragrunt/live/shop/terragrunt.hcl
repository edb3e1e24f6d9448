include "root" {
  path = find_in_parent_folders("root.hcl")
}

dependency "network" {
  config_path = "../network"
}

inputs = {
  cidr = dependency.network.outputs.cidr
}
