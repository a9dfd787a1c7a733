// Package tfplugin5 holds the generated messages of version 5 of the plugin protocol. It does nothing with them.
//
// The messages are described in tfplugin5.proto; `make generate` remakes the code from it.
package tfplugin5

//go:generate ../../bin/tools/protogen tfplugin5.proto
