package pattern

import "testing"

// An expression that is never used would cost as much as the others if it were compiled where it is declared; a wrong
// one shows when that happens.
func TestAnExpressionIsCompiledWhenItIsFirstUsed(t *testing.T) {
	wrong := Lazy(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression was compiled")
		}
	}()
	wrong()
}

func TestTheSameExpressionIsCompiledOnce(t *testing.T) {
	digits := Lazy(`^\d+$`)
	if first := digits(); first != digits() {
		t.Error("compiled twice")
	}
	if !digits().MatchString("42") || digits().MatchString("x") {
		t.Error("not the expression that was given")
	}
}
