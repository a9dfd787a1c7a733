// Package withheld keeps secrets of a process out of its environment in /proc.
//
// A variable that a process removes from its environment is still in /proc/PID/environ, which shows what the process
// was started with. So the process starts its program again, in its own place, without these variables, and gets their
// values through a file in memory that has no name and is closed at once. The package decides nothing about what is
// secret.
package withheld

import (
	"fmt"
	"os"
	"strings"

	"github.com/millipede-iac/millipede/environ"
)

// handle is the variable that names the descriptor of the file in memory. It is no secret.
const handle = "MILLIPEDE_WITHHELD"

// Take returns the secret variables of the process, by name and value, and keeps them out of its environment. To do so
// it starts the program again, and then does not return. Call it first in main. After an error, the returned variables
// are valid, and the environment still has them.
func Take(secret func(name, value string) bool) (environ.Variables, error) {
	if text, again := os.LookupEnv(handle); again {
		if err := os.Unsetenv(handle); err != nil {
			return nil, fmt.Errorf("removing %s from the environment: %w", handle, err)
		}
		return received(text)
	}
	var secrets, rest environ.Variables
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); secret(name, value) {
			secrets = append(secrets, v)
		} else {
			rest = append(rest, v)
		}
	}
	if len(secrets) == 0 {
		return nil, nil
	}
	return secrets, startAgain(secrets, rest)
}
