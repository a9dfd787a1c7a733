# Where the resources of this example run. The configuration beside this file knows nothing of it.

pool "eu" {
  modules = ["module.eu"]
}

pool "us" {
  modules = ["module.us"]
}

# At most two operations at a time in each pool, over all runs that name this limit.
limit "example" {
  max            = 2
  key            = "pool"
  resource_types = ["terraform_data"]
}
