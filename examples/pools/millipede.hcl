# The pools for the resources of this example. The configuration beside this file does not mention them.

pool "eu" {
  modules = ["module.eu"]
}

pool "us" {
  modules = ["module.us"]
}

# At most two operations at a time in each pool, for all runs that use this limit.
limit "example" {
  max            = 2
  key            = "pool"
  resource_types = ["terraform_data"]
}
