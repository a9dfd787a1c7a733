package addr

import "strings"

// scanInstance parses the canonical text of an instance's address in one pass without allocating. It returns false
// for anything unusual: letters outside ASCII, escapes, spaces, errors. Such text is left to the HCL parser, so
// text that is accepted here means the same to both.
func scanInstance(text string) (Instance, bool) {
	var i Instance
	rest := text
	for strings.HasPrefix(rest, "module.") {
		name, after := scanName(rest[len("module."):])
		_, after, ok := scanKey(after)
		if name == "" || !ok || after == "" || after[0] != '.' {
			return i, false
		}
		i.Module = ModuleInstance{text[:len(text)-len(after)]}
		rest = after[1:]
	}
	var ok bool
	i.Resource.Mode = Managed
	word, rest := scanName(rest)
	if word == "data" || word == "ephemeral" {
		i.Resource.Mode = Data
		if word == "ephemeral" {
			i.Resource.Mode = Ephemeral
		}
		if word, rest, ok = scanAttr(rest); !ok {
			return i, false
		}
	}
	i.Resource.Type = word
	if i.Resource.Name, rest, ok = scanAttr(rest); !ok || word == "" || word == "module" {
		return i, false
	}
	i.Key, rest, ok = scanKey(rest)
	return i, ok && rest == ""
}

// scanName removes an identifier from the front of text; "" if there is none or it contains letters outside ASCII.
func scanName(text string) (name, rest string) {
	n := 0
	for n < len(text) {
		c := text[n]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || n > 0 && (c >= '0' && c <= '9' || c == '-') {
			n++
			continue
		}
		if c >= 0x80 {
			return "", text
		}
		break
	}
	return text[:n], text[n:]
}

func scanAttr(text string) (name, rest string, ok bool) {
	if text == "" || text[0] != '.' {
		return "", text, false
	}
	name, rest = scanName(text[1:])
	return name, rest, name != ""
}

// scanKey removes a key in brackets from the front of text. Without a bracket, it returns NoKey.
func scanKey(text string) (Key, string, bool) {
	if text == "" || text[0] != '[' {
		return NoKey, text, true
	}
	if len(text) < 3 {
		return NoKey, text, false
	}
	if text[1] == '"' {
		for n := 2; n < len(text); n++ {
			switch c := text[n]; {
			case c == '"':
				ok := n+1 < len(text) && text[n+1] == ']'
				if !ok {
					return NoKey, text, false
				}
				return StringKey(text[2:n]), text[n+2:], true
			case c == '\\' || c == '$' || c == '%' || c < ' ' || c >= 0x7f:
				return NoKey, text, false
			}
		}
		return NoKey, text, false
	}
	n, at := 0, 1
	for ; at < len(text) && text[at] >= '0' && text[at] <= '9' && at < 12; at++ {
		n = n*10 + int(text[at]-'0')
	}
	if at == 1 || at >= len(text) || text[at] != ']' || (text[1] == '0' && at > 2) {
		return NoKey, text, false
	}
	return IntKey(n), text[at+1:], true
}
