package recorded

import "fmt"

// CopyAll puts everything that one transaction sees into another one, which sees nothing yet.
func CopyAll(from, to *Tx) error {
	return from.ForEach(func(name []byte, b *Bucket) error {
		out, err := to.CreateBucket(name)
		if err != nil {
			return fmt.Errorf("copying the bucket %q: %w", name, err)
		}
		return copyBucket(b, out)
	})
}

func copyBucket(from, to *Bucket) error {
	if n := from.Sequence(); n > 0 {
		if err := to.SetSequence(n); err != nil {
			return err
		}
	}
	return from.ForEach(func(key, value []byte) error {
		if value != nil {
			return to.Put(key, value)
		}
		out, err := to.CreateBucket(key)
		if err != nil {
			return fmt.Errorf("copying the bucket %q: %w", key, err)
		}
		return copyBucket(from.Bucket(key), out)
	})
}
