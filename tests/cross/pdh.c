/* pdh.dll for Wine, whose own ends a program that asks for counters of load: there are none. */
#include <windows.h>

#define NONE 0xC0000BB9 /* PDH_CSTATUS_NO_COUNTER */
#define LACKING(name) \
  __declspec(dllexport) LONG WINAPI name(void) { return NONE; }

LACKING(PdhAddEnglishCounterW)
LACKING(PdhCloseQuery)
LACKING(PdhCollectQueryData)
LACKING(PdhEnumObjectsW)
LACKING(PdhGetFormattedCounterValue)
LACKING(PdhOpenQueryW)
LACKING(PdhRemoveCounter)
