package web

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// refill puts the values of a form that was refused into that form of its page, and opens what the form is folded into.
// action is the address to which the form was sent. A page has several forms with one address: it is the first one
// whose hidden fields and buttons fit the values. Passwords are not repeated.
func refill(page []byte, action string, values url.Values) ([]byte, error) {
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return nil, err
	}
	for form := range root.Descendants() {
		if form.Data != "form" || attribute(form, "action") != action || !sends(form, values) {
			continue
		}
		fill(form, values)
		for above := range form.Ancestors() {
			if above.Data == "details" {
				setAttribute(above, "open", "")
			}
		}
		break
	}
	var b bytes.Buffer
	err = html.Render(&b, root)
	return b.Bytes(), err
}

// sends reports whether a form may have sent the values.
func sends(form *html.Node, values url.Values) bool {
	buttons := map[string][]string{}
	for n := range form.Descendants() {
		name := attribute(n, "name")
		if name == "" {
			continue
		}
		switch {
		case n.Data == "button":
			buttons[name] = append(buttons[name], attribute(n, "value"))
		case n.Data == "input" && attribute(n, "type") == "hidden" && name != "form":
			if values.Get(name) != attribute(n, "value") {
				return false
			}
		}
	}
	for name, all := range buttons {
		if !slices.Contains(all, values.Get(name)) {
			return false
		}
	}
	return len(buttons) > 0 || !values.Has("action")
}

// fill sets the fields of a form.
func fill(form *html.Node, values url.Values) {
	for n := range form.Descendants() {
		name := attribute(n, "name")
		if name == "" {
			continue
		}
		switch n.Data {
		case "input":
			switch attribute(n, "type") {
			case "hidden", "password", "submit":
			case "checkbox", "radio":
				value := attribute(n, "value")
				if value == "" {
					value = "on"
				}
				toggle(n, "checked", slices.Contains(values[name], value))
			default:
				setAttribute(n, "value", values.Get(name))
			}
		case "textarea":
			for child := n.FirstChild; child != nil; child = n.FirstChild {
				n.RemoveChild(child)
			}
			n.AppendChild(&html.Node{Type: html.TextNode, Data: strings.ReplaceAll(values.Get(name), "\r\n", "\n")})
		case "select":
			for option := range n.Descendants() {
				if option.Data == "option" {
					toggle(option, "selected", slices.Contains(values[name], optionValue(option)))
				}
			}
		}
	}
}

// optionValue returns the value of an option; without an attribute, that is its text.
func optionValue(option *html.Node) string {
	for _, a := range option.Attr {
		if a.Key == "value" {
			return a.Val
		}
	}
	var b strings.Builder
	for n := range option.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func setAttribute(n *html.Node, name, value string) {
	for i := range n.Attr {
		if n.Attr[i].Key == name {
			n.Attr[i].Val = value
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: name, Val: value})
}

// toggle sets or removes an attribute without a value.
func toggle(n *html.Node, name string, on bool) {
	if on {
		setAttribute(n, name, "")
		return
	}
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}
