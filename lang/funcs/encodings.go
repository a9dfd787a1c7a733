package funcs

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"unicode/utf8"

	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"

	"github.com/millipede-iac/millipede/internal/bounds"
)

func encodings() family {
	return family{
		"base64decode": {base64Decode(), "Decodes base64 text, which must hold a UTF-8 string."},
		"base64encode": {bounded(base64Encode(), encodedInBase64), "Writes the UTF-8 form of a string in base64."},
		"base64gunzip": {base64Gunzip(), "Decodes base64 text and decompresses it with gzip."},
		"base64gzip":   {base64Gzip(), "Compresses a string with gzip and writes the result in base64."},
		"csvdecode": {bounded(stdlib.CSVDecodeFunc, rows), "Reads comma-separated values into a list of objects, named by " +
			"the header line."},
		"jsondecode": {jsonDecode(), "Reads JSON text into a value."},
		"jsonencode": {bounded(stdlib.JSONEncodeFunc, written), "Writes a value as JSON text."},
		"textdecodebase64": {textDecode(), "Decodes base64 text and reads the bytes in a character encoding such as " +
			"UTF-16LE."},
		"textencodebase64": {textEncode(), "Writes a string in a character encoding such as UTF-16LE, and the bytes " +
			"in base64."},
		"urldecode":  {urlDecode(), "Undoes the percent-encoding of a URL's query part."},
		"urlencode":  {bounded(urlEncode(), percentEncoded), "Percent-encodes a string for the query part of a URL."},
		"yamldecode": {yamlDecode(), "Reads YAML text into a value."},
		"yamlencode": {boundedNullable(ctyyaml.YAMLEncodeFunc, written), "Writes a value as YAML text in block style."},
	}
}

func base64Encode() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.StringVal(base64.StdEncoding.EncodeToString([]byte(args[0].AsString()))), nil
	}, plain("str", cty.String))
}

func base64Decode() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		str, strMarks := args[0].Unmark()
		raw, err := base64.StdEncoding.DecodeString(str.AsString())
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s is not base64", show(str.AsString(), strMarks))
		}
		if !utf8.Valid(raw) {
			return cty.NilVal, errors.New("what the base64 text encodes is not valid UTF-8")
		}
		return cty.StringVal(string(raw)).WithMarks(strMarks), nil
	}, withMarks("str", cty.String))
}

// base64Gzip flushes before it closes, which adds an empty block that other implementations' results contain.
func base64Gzip() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		var b bytes.Buffer
		gz := gzip.NewWriter(&b)
		_, err := gz.Write([]byte(args[0].AsString()))
		if err := errors.Join(err, gz.Flush(), gz.Close()); err != nil {
			return cty.NilVal, fmt.Errorf("compressing: %w", err)
		}
		return cty.StringVal(base64.StdEncoding.EncodeToString(b.Bytes())), nil
	}, plain("str", cty.String))
}

func base64Gunzip() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		str, strMarks := args[0].Unmark()
		raw, err := base64.StdEncoding.DecodeString(str.AsString())
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s is not base64", show(str.AsString(), strMarks))
		}
		gz, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return cty.NilVal, fmt.Errorf("decompressing: %w", err)
		}
		out, err := bounds.ReadAll(gz, "the decompressed text", bounds.String)
		if err != nil {
			return cty.NilVal, fmt.Errorf("decompressing: %w", err)
		}
		return cty.StringVal(string(out)).WithMarks(strMarks), nil
	}, withMarks("str", cty.String))
}

func textEncode() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		enc, err := charset(args[1].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(1, err)
		}
		raw, err := enc.NewEncoder().Bytes([]byte(args[0].AsString()))
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "the string has characters that %s lacks", args[1].AsString())
		}
		return cty.StringVal(base64.StdEncoding.EncodeToString(raw)), nil
	}, plain("string", cty.String), plain("encoding", cty.String))
}

func textDecode() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		enc, err := charset(args[1].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(1, err)
		}
		raw, err := base64.StdEncoding.DecodeString(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "not base64: %w", err)
		}
		out, err := enc.NewDecoder().Bytes(raw)
		if err != nil || bytes.ContainsRune(out, utf8.RuneError) {
			return cty.NilVal, function.NewArgErrorf(0, "what the base64 text encodes is not valid %s",
				args[1].AsString())
		}
		return cty.StringVal(string(out)), nil
	}, plain("source", cty.String), plain("encoding", cty.String))
}

// charset finds a character encoding by its IANA name or alias. For IANA names that the library does not implement,
// it returns neither an encoding nor an error.
func charset(name string) (encoding.Encoding, error) {
	enc, err := ianaindex.IANA.Encoding(name)
	if err != nil || enc == nil {
		return nil, fmt.Errorf("%q is not the IANA name of a supported character encoding", name)
	}
	return enc, nil
}

func urlEncode() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.StringVal(url.QueryEscape(args[0].AsString())), nil
	}, plain("str", cty.String))
}

func urlDecode() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		out, err := url.QueryUnescape(args[0].AsString())
		if err != nil {
			return cty.NilVal, fmt.Errorf("decoding the URL: %w", err)
		}
		return cty.StringVal(out), nil
	}, plain("str", cty.String))
}
