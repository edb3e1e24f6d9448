module "network" {
  source = "../.."
  name   = "shop"

  subnets = [
    { name = "web", public = true },
    { name = "data" },
  ]
}
