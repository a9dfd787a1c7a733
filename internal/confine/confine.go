// Package confine takes from a process, and from the programs that it starts, the access to files that they do not
// need.
//
// It uses Landlock, which Linux has since 5.13. Elsewhere nothing is confined, and Level says so. Landlock restricts
// neither whether a file exists can be seen, nor Unix sockets with names, nor UDP. The package knows no configuration.
package confine

// Rules are the files that a process may use. Paths that do not exist are ignored; links are followed when the rules
// are made, so that a link that is replaced later gives no access to another file.
type Rules struct {
	// Read are files, and directories with everything below them, that may be read and executed.
	Read []string
	// Write are those that may be changed as well.
	Write []string
	// Alone says that the process may not send signals to others, except to those that it has started.
	Alone bool
}

// Level returns the version of Landlock that the system has, 0 for none.
func Level() int { return level() }

// Apply restricts the process for ever, with all programs that it starts from then on. It may be called more than once:
// then the restrictions add up. Where there is no Landlock, it does nothing.
func (r Rules) Apply() error { return r.apply() }

// System are what programs need of a Linux system to run, to resolve names and to check certificates. It has no file
// that only some users may read. Of a process that is not confined in the same way, programs see in /proc only what all
// users see: Landlock refuses its environment, its memory and its open files, as it refuses to trace it.
var System = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/opt", "/nix", "/etc/alternatives", "/etc/ld.so.cache",
	"/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services",
	"/etc/protocols", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
	"/etc/pki/ca-trust", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
	"/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/mime.types", "/etc/os-release",
	"/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d", "/etc/ssh/ssh_known_hosts",
	"/dev/urandom", "/dev/random", "/dev/zero", "/dev/fd", "/proc", "/sys/kernel/mm/transparent_hugepage",
	"/sys/devices/system/cpu",
}

// Devices are what programs write to without changing anything.
var Devices = []string{"/dev/null", "/dev/tty", "/dev/full", "/dev/ptmx", "/dev/pts"}
