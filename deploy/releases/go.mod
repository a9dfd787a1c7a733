module github.com/millipede-iac/millipede/deploy/releases

go 1.26.0
