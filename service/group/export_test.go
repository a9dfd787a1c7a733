package group

// OmitQuestion has the lead claimed without asking the others.
func (o *Options) OmitQuestion() { o.omit.question = true }
