// Package tfplugin6 holds the generated messages of version 6 of the plugin protocol. It does nothing with them.
//
// The messages are described in tfplugin6.proto; `make generate` remakes the code from it.
package tfplugin6

//go:generate ../../bin/tools/protogen tfplugin6.proto
