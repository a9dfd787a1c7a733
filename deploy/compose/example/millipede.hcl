pool "eu" { modules = ["module.eu"] }
pool "us" { modules = ["module.us"] }
pool "ap" { modules = ["module.ap"] }
