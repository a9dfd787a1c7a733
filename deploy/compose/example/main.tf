# A module for each region. millipede.hcl says which workers execute it.
terraform {
  cloud {
    hostname     = "localhost:8443"
    organization = "main"
    workspaces { name = "example" }
  }
}

module "eu" {
  source = "./region"
  name   = "eu"
}

module "us" {
  source = "./region"
  name   = "us"
}

module "ap" {
  source = "./region"
  name   = "ap"
}

output "all" {
  value = [module.eu.place, module.us.place, module.ap.place]
}
