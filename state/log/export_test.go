package log

// OmitHigher has a refusal decide, whatever sequence it names.
func (o *Options) OmitHigher() { o.omit.higher = true }

// OmitChain applies entries whatever they follow.
func (o *Options) OmitChain() { o.omit.chain = true }

// OmitSync writes files without syncs.
func (o *Options) OmitSync() { o.omit.sync = true }

// DB returns the file of a copy.
func (c *Copy) DB() any { return c.db }

// ErrNotStored is the error of a writer that lets a refusal decide.
var ErrNotStored = errNotStored
